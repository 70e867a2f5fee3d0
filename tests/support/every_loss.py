"""Every ranking loss, with options that matter."""

from __future__ import annotations

from mfrank.losses import Loss
from mfrank.losses.approx_ndcg import ApproxNDCG
from mfrank.losses.bce import BCE
from mfrank.losses.bpr import BPR
from mfrank.losses.ksong import KSONG
from mfrank.losses.lambda_rank import LambdaRank
from mfrank.losses.list_mle import ListMLE
from mfrank.losses.list_net import ListNet
from mfrank.losses.neural_ndcg import NeuralNDCG
from mfrank.losses.rank_net import RankNet
from mfrank.losses.sml import SML
from mfrank.losses.smooth_ap import SmoothAP
from mfrank.losses.softmax import SampledSoftmax, Softmax
from mfrank.losses.solc import SOLC
from mfrank.losses.song import SONG
from mfrank.losses.sparsemax import Sparsemax
from mfrank.losses.uib import UIB


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
