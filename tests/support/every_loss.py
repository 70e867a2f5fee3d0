"""Every ranking loss, with options that matter."""

from __future__ import annotations

from mfrank.losses import (
    BCE,
    BPR,
    KSONG,
    SML,
    SOLC,
    SONG,
    UIB,
    ApproxNDCG,
    LambdaRank,
    ListMLE,
    ListNet,
    Loss,
    NeuralNDCG,
    RankNet,
    SampledSoftmax,
    SmoothAP,
    Softmax,
    Sparsemax,
)


def ksong(choice: str) -> KSONG:
    """Of the paper's theory: slopes follow the threshold."""
    return KSONG(k=3, decay=1.0, theoretical=True, choice=choice, smoothing_1=0.3, smoothing_2=0.1)


LOSSES: dict[str, Loss] = {
    "bpr": BPR(),
    "rank net": RankNet(),
    "lambda rank": LambdaRank(steepness=1.5),  # whose weights are constant between ties
    "bce": BCE(),
    "softmax": Softmax(),
    "sampled softmax": SampledSoftmax(temperature=0.7),
    "approx ndcg": ApproxNDCG(sharpness=2.0),
    "smooth ap": SmoothAP(temperature=0.3),
    "song": SONG(decay=1.0),
    "song pooled": SONG(decay=1.0, pooled=True),
    "ksong": ksong("sigmoid"),
    "ksong hinge": ksong("hinge"),
    "ksong squared hinge": ksong("squared_hinge"),
    "neural ndcg": NeuralNDCG(temperature=0.9, rounds=3),
    "solc": SOLC(decay=1.0),
    "list net": ListNet(),
    "list mle": ListMLE(),
    "sparsemax": Sparsemax(),
    "uib": UIB(margin=1.3),
    "sml": SML(item_weight=0.6, margin_weight=0.3),
}
