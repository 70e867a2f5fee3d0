"""The best model for a table of interactions, in one call."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mfrank.arrays import (
    OutOfTimeError,
    check_above_zero,
    check_count,
    check_threads,
    paragraphs,
)
from mfrank.data import (
    Events,
    Interactions,
    KindWeights,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation import NDCG, Metric, to_maximize
from mfrank.models import Popularity, refit, tell_readers, tell_uncut, values_told, values_vary
from mfrank.retrieval import Recommender, pack
from mfrank.tuning.event_weights import (
    ByKind,
    TargetData,
    WeightSearch,
    checked_weights,
    record_weights,
    weights_told,
)
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Model, checked_needs
from mfrank.tuning.leaderboard import Leaderboard
from mfrank.tuning.learned_order import TreesTrial
from mfrank.tuning.mixture import BlendPart, blended
from mfrank.tuning.own_ladder import GridTried
from mfrank.tuning.own_space import check_times, own_space
from mfrank.tuning.search_result import (
    SearchResult,
    budget_of,
    joined,
    likes_of,
    search,
    valid_of,
    without_dislikes,
)
from mfrank.tuning.summary import Lead, Serving, code_of, sentences
from mfrank.tuning.trials import Predict, Runner, check_predict

_DEFAULT_MINUTES, _DEFAULT_FACTORS = 10.0, 512
_HELD_OUT = {"next": "as the next of each user", "session": "as the last of the latest sessions"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TuneResult:
    """The result of :func:`mfrank.tune`.

    Attributes
    ----------
    model : Recommender
        Fitted to all data: an :class:`mfrank.ALS`, a :class:`mfrank.Descent`, an item-to-item
        model, a baseline, or a :class:`mfrank.Blend` of these; or a :class:`mfrank.Reranker`, trees
        over one of these, which is then its ``model``. ``refit`` makes the same of other data.
    leaderboard : Leaderboard
        All trials, best first.
    validation : {"by time", "next", "session", "per user", "as given"}
        How the validation part was held out.
    uses_values : bool or None
        Whether the model, or a part of a blend, reads the values of the interactions; None if all
        values are equal.
    weights : mapping of str to float or None, optional
        With a ``target``: what an event of each kind counts, given or found; None for kinds that
        are left out. The history of the model has them, too.
    days : Leaderboard or None, optional
        With a ``storage``: what each search in it found, the newest first.
    target : kind of event, optional
        The kind that is ranked.
    leads : tuple of Lead, optional
        How far the model is ahead on the held-out part: of the best single model, if it is a blend,
        and of the best of the families that it has no model of.
    serving : Serving or None, optional
        What it costs to serve, measured after the search.
    trees : TreesTrial or None, optional
        What came of trees over the best: what they gained, or why they are left out.
    grid : GridTried or None, optional
        How many combinations of ``space`` were tried, if all its options are lists.
    """

    model: Recommender
    leaderboard: Leaderboard
    validation: str
    uses_values: bool | None = None
    weights: Mapping[str, float | None] | None = None
    days: Leaderboard | None = None
    target: Any = None
    leads: tuple[Lead, ...] = ()
    serving: Serving | None = None
    trees: TreesTrial | None = None
    grid: GridTried | None = None

    @property
    def code(self) -> str:
        """Python to paste, which fits the same model without a search.

        ``data`` are those of the call, together with ``valid`` if there was one; with a ``target``,
        they are ``events``. Trees also need ``train`` and ``valid``, as ``validation`` says.
        """
        if self.weights is None:
            return code_of(self.model)
        weights = weights_told(self.weights).removeprefix("weights=")
        return code_of(self.model, f"events.weighted({weights})", f"events[{self.target!r}]")

    def summary(self) -> str:
        """What won, how sure that is, what it costs to serve, and how to make it again."""
        return "\n".join([*self._told(), self.code])

    def refit(self, data: Any) -> Any:
        """A new model of the same recipe, fitted to other data without a search.

        ``data`` are as of :func:`mfrank.tune` without a ``target``: events already have values, as
        by ``Interactions.from_frame(shop, weights=found.weights)``. See :func:`mfrank.refit`.
        """
        return refit(self.model, data)

    def __repr__(self) -> str:
        return f"{self.summary()}\n{self.leaderboard}"

    def _repr_html_(self) -> str:
        return paragraphs(self.summary().splitlines()) + self.leaderboard._repr_html_()

    def _told(self) -> list[str]:
        how = _HELD_OUT.get(self.validation, self.validation)
        told = [f"chosen on interactions held out {how}"]
        if self.weights is not None:
            told.append(f"fitted to events with {weights_told(self.weights)}")
        if self.uses_values is not None:
            told.append(f"it {'reads' if self.uses_values else 'does not read'} their values")
        if self.grid is not None:
            told.append(str(self.grid))
        if self.trees is not None:
            told.append(str(self.trees))
        again = "for new data: found.refit(data), mfrank tune FILE --refit MODEL --model NEWER, or"
        return [*sentences(self.model, self.leaderboard, told, self.leads, self.serving), again]


def tune(
    data: Any,
    *,
    target: Any = None,
    weights: KindWeights | None = None,
    valid: Any = None,
    predict: Predict | None = None,
    minutes: float | None = None,
    trials: int | None = None,
    metric: Metric | str = NDCG @ 20,
    factors: int = _DEFAULT_FACTORS,
    random_state: int = 0,
    n_threads: int = 0,
    memory: float | None = None,
    needs: str | Collection[str] = "everything",
    space: Mapping[Any, Mapping[str, Any]] | None = None,
    storage: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
) -> TuneResult:
    """Search for the model that ranks held-out interactions best, and fit it to all data.

    1. *Hold out* interactions to judge by (``predict``).
    2. *Search*: fit models to the rest and evaluate them on the held-out part after every epoch,
       by at most 5,000 users. Each fit returns to its best epoch. All models begin narrow; the
       best continue with more factors.
    3. *Fit* the best model or, if it ranks higher, a blend of up to four models of several
       families, to all data.
    4. With the extra ``rerank``: *trees* over it (:class:`mfrank.Reranker`), if they rank higher by
       more than one standard error on held-out interactions that they did not learn from: those of
       other users or, if they are held out by time, the later half, where both are over a fit that
       has the earlier half, too. With fewer than 200 such users, they are not tried.
       ``found.model.model`` is the model without them. Lists take longer, and cannot be steered.

    The families are ALS under several objectives, a sampled softmax, linear item-to-item models
    (:class:`mfrank.ItemFilter`, and :class:`mfrank.EASE`, of ``candidates`` if users and items are
    many) and, if later interactions are held out, :class:`mfrank.NextItem`,
    :class:`mfrank.AsymmetricALS`, :class:`mfrank.SequentialRules` and popularity within windows of
    time.
    Ranges are in units of the data (numbers of rows, columns and entries, mean values), so the
    search space is the same for all data. If values vary, models that read them (ALS under WRMF,
    ItemKNN) compete with the others.

    **Time**: a fit begins only if it and all later steps are expected to be in time, judging by
    earlier fits. A fit that is slower than expected ends early or is stopped: an item-to-item model
    within a block of items, a descent within a batch, an ALS within a half-step. The call exceeds
    its time by at most one such block, batch or half-step of the slowest model, unless the time is
    too short to read and split the data and count popularity. Popularity is the result if no other
    model could be fitted. If there is no time to fit the chosen model to all data, the fit to the
    training part is returned. The leaderboard says what was stopped or left out.

    Parameters
    ----------
    data : Interactions, scipy sparse (users x items) or DataFrame
        With ``target``: Events or DataFrame.
    target : kind of event, optional
        Rank this kind, such as "purchase", and learn from all: events of this kind are held out,
        with what would give them away (:meth:`mfrank.Events.split`), and lists leave out only
        items that users have of this kind.
    weights : mapping of kind to number or None, optional
        With ``target``: what an event of each kind counts, at least 0. By default, weights are
        searched first, one kind at a time, in at most a fifth of the time (with ``storage`` or
        without ``minutes``: in up to some 20 fits for each other kind).
    valid : Interactions, scipy sparse (users x items) or DataFrame, optional
        Validation part, in place of a tenth of the data. It should resemble later use, such as each
        user's last interactions. Matched by id; users who are not in the data, and entries that
        are, do not count. The final fit is to both.
    predict : {"later", "next", "session", "any"} or None, default None
        What the model is for, and so what is held out of the data, without ``valid``: "later" is
        the latest tenth of all interactions, "next" the last one of each user, "session" the last
        one of the latest users (a tenth, 1,000 to 5,000), "any" a random tenth of each user's. By
        default "later" if there are timestamps and enough users have interactions both before and
        after that moment; otherwise "session" if there are timestamps and most users have at most
        10 interactions; otherwise "any".
    minutes : float or None
        Maximum minutes of the whole call, > 0. Default 10, or None with ``trials``.
    trials : int or None, default None
        Maximum number of fits in the search, >= 1, without baselines and the final fit. With
        ``trials`` and without ``minutes``, the result does not depend on the clock: the same seed
        gives the same bits. With ``minutes``, the number of fits depends on the machine.
    metric : Metric or str, default NDCG @ 20
        Metric to maximize, with per-user values.
    factors : int, default 512
        Factors of the widest model, >= 1; a blend is wider.
    random_state : int, default 0
        Seed of the validation part, the search and every fit, >= 0.
    n_threads : int, default 0
        0 uses every core this process may use.
    memory : float or None, default None
        GiB for the search in addition to the data, > 0; by default, the free memory at the
        beginning. A model is left out if its fit is estimated to need more than a quarter of it,
        because the best models of each family stay in memory, too.
    needs : "everything" or collection of str, default "everything"
        What the model must be able to do after the fit, of "update" (``partial_fit``), "explain"
        and "new users" (``recommend_from_items``). Models that cannot are left out, which the
        leaderboard says; ``()`` searches all.
    space : mapping of model to its options, or None, default None
        What to search in place of mfrank's own space: models, such as ``mfrank.EASE()``, and of
        each the options to try, named as in ``get_params`` (``objective__regularization``). A list
        is choices. A tuple ``(low, high)`` is a range: of whole numbers for options that are
        counts; logarithmic if ``low`` is above 0 and ``high`` at least ten times as large. Other
        options stay as the model has them, its seed and threads too, if it has some. Few
        ``factors`` come first: the values of a list, or of a range both ends and steps of at most
        four times between. If all options are lists, every combination is tried once, if time or
        ``trials`` suffice, which the summary says; with ranges, up to 100 of each model, or
        ``trials``. The models take turns. ``{}`` fits a model as it is. Baselines are not added.
    storage : path or None, default None
        SQLite file to which every result is saved at once. The same call resumes an interrupted
        search; earlier time and trials count, and the best model is fitted even if no time is left.
        Several processes that make the same call share the trials. A call with other data, such as
        the next day's, is another search in the file, which begins with the best settings of the
        latest with the same metric, ``target`` and kind of held-out part.
    show_progress : bool, default False
        Show each result on stderr.

    Returns
    -------
    TuneResult

    Raises
    ------
    ValueError, TypeError
        Before any work:

        - an argument is out of range;
        - the data have no positive values, or have dislikes;
        - no user has interactions to hold out;
        - only one of ``data`` and ``valid`` has timestamps or ids;
        - ``space`` names what no model has, values that one refuses, or nothing;
        - ``storage`` is damaged, or has a search of these data with other options.
    TimeoutError
        Another process has locked ``storage`` for half a minute.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> found = mfrank.tune(data, trials=2, factors=16)
    >>> ids, scores = found.model.recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """
    if minutes is None and trials is None:
        minutes = _DEFAULT_MINUTES
    if minutes is not None:
        check_above_zero(minutes=minutes)
    if trials is not None:
        check_count("trials", trials, 1)
    if memory is not None:
        check_above_zero(memory=memory)
    for name, value, least in (("factors", factors, 1), ("random_state", random_state, 0)):
        check_count(name, value, least)
    check_threads(n_threads)
    needed = checked_needs(needs)
    check_predict(predict)
    if predict is not None:
        for name, value in (("valid", valid), ("target", target)):
            if value is not None:
                raise InputValueError(
                    f"`predict` does not go with `{name}`, which says what is held out:",
                    "leave out one of them",
                )
    searched = SPACE if space is None else own_space(space)
    if space is not None and factors != _DEFAULT_FACTORS:
        raise InputValueError(
            "`factors` does not go with `space`, whose models have their own:",
            "give it there, as an option of each model",
        )
    searched.able(needed)
    chosen, clock = to_maximize(metric), budget_of(minutes)
    of_target = None
    if target is not None:
        of_target = TargetData.of(data, target, valid, int(random_state))
        check_times(searched, of_target.events)
        weights = _weights(
            of_target,
            weights,
            WeightSearch(
                *(of_target, chosen, clock, int(factors), int(random_state), n_threads),
                show_progress=show_progress,
                is_timed=storage is None,
            ),
        )
        (everything, bought), chooses = of_target.whole(weights), of_target.valid
        train = without_dislikes(of_target.train.weighted(weights), "data")
    else:
        _refuse_events(data, weights)
        everything = train = likes_of(data)
        check_times(searched, train)
        chooses = None
        if valid is not None:
            given = valid_of(valid, train)
            tell_uncut("valid", given, train, "count as hits and likes")
            everything, train, chooses = joined(train, given)
        families = (*searched.baselines, *searched.families())
        tell_readers(everything, ((each.name, each.uses_values) for each in families))
    with values_told():
        found = search(
            train,
            chosen,
            clock,
            space=searched,
            trials=trials,
            factors=int(factors),
            seed=int(random_state),
            n_threads=n_threads,
            memory=memory,
            storage=storage,
            show_progress=show_progress,
            valid=chooses,
            left_out=None if of_target is None else of_target.bought,
            held_out="as given" if of_target is None else of_target.held_out,
            target=None if of_target is None else of_target.target,
            needs=needed,
            predict=predict,
            with_trees=True,
        )
        model = _fitted(found, everything)
    if weights is not None:
        record_weights(model.leave_out(bought), weights)
    used = None
    if values_vary(everything.user_items.data):
        models = [found.runner.model(part.outcome.trial) for part in found.parts]
        used = any(getattr(each, "uses_values", False) for each in models)
    days = None if storage is None else Leaderboard.of_days(storage)
    return TuneResult(
        *(model, found.leaderboard, found.runner.judge.kind, used, weights, days, target),
        *(found.leads, Serving.of(model, n_threads), found.trees, found.grid),
    )


def _weights(data: TargetData, given: KindWeights | None, search: WeightSearch) -> ByKind:
    """The weights that are given or, without work for a single kind, found."""
    if given is not None:
        return checked_weights(given, data)
    with values_told():
        return search.best()


def _refuse_events(data: Any, weights: Any) -> None:
    """Raise unless the arguments are of interactions without a target."""
    if isinstance(data, Events):
        kinds = ", ".join(map(repr, data.kinds))
        raise InputTypeError(
            f"`data` are events of several kinds, {kinds}:", "name the one to rank with `target=`"
        )
    if weights is not None:
        raise InputValueError("`weights` needs `target`:", "name the kind to rank")


def _fitted(found: SearchResult, data: Interactions) -> Recommender:
    if not found.parts:
        errors = [outcome.error or "" for outcome in found.outcomes]
        if any(error.startswith(MemoryError.__name__) for error in errors):
            raise MemoryError(f"no fit succeeded: {errors[-1]}")
        if found.runner.space.own:
            why = errors[-1] if errors else "there was no time for one"
            raise InputValueError(
                f"`space`: no fit of it succeeded: {why}",
                "give it more `minutes`, or other models or options",
            )
        return Popularity().fit(data)  # there was no time for anything else
    models = [_whole(found.runner, part, data) for part in found.parts]
    model: Recommender = models[0] if len(models) == 1 else blended(models, found.parts)
    trees = None if found.trees is None else found.trees.model
    return model if trees is None else trees.over(model)


def _whole(runner: Runner, part: BlendPart, data: Interactions) -> Model:
    """A part fitted to all data or, if there is no time, to most of it, if it was."""
    kept = runner.kept.get(part.outcome.trial)
    if kept is None:
        return runner.refitted(part.outcome, data)
    if runner.budget.left() > part.outcome.fit_seconds:
        try:
            with runner.budget.to_the_end():
                return runner.refitted(part.outcome, data)
        except OutOfTimeError:
            pass
    return type(kept)._from_store(pack(kept.store, data.seen))  # all data are seen
