"""The search for the best model of a table of interactions: :func:`mfrank.tune`."""

from mfrank.tuning.event_weights import TargetData, WeightSearch
from mfrank.tuning.families import (
    BASELINES,
    EPOCHS,
    FAMILIES,
    SPACE,
    TIMED_SPACE,
    Closed,
    Counted,
    Filter,
    Recent,
    Regression,
    named,
)
from mfrank.tuning.family import Axis, Facts, Family, Point, Setting, Space, near, short, spread_out
from mfrank.tuning.leaderboard import Leaderboard
from mfrank.tuning.mixture import (
    MOST_PARTS,
    BlendPart,
    Shortlists,
    Weights,
    _late,
    blended,
    finalists,
    mixed,
    weighed,
)
from mfrank.tuning.one_call import TuneResult, _fitted, tune
from mfrank.tuning.outcomes import Outcome, Trial
from mfrank.tuning.search_result import SearchResult, budget_of, likes_of, metric_of, search
from mfrank.tuning.successive_halving import CAUTION, Budget, Ladder, Search, best, refit_seconds
from mfrank.tuning.trial_journal import TrialJournal
from mfrank.tuning.trials import Runner, TrialJudge, TrialWatch

__all__ = [
    "BASELINES",
    "CAUTION",
    "EPOCHS",
    "FAMILIES",
    "MOST_PARTS",
    "SPACE",
    "TIMED_SPACE",
    "Axis",
    "BlendPart",
    "Budget",
    "Closed",
    "Counted",
    "Facts",
    "Family",
    "Filter",
    "Ladder",
    "Leaderboard",
    "Outcome",
    "Point",
    "Recent",
    "Regression",
    "Runner",
    "Search",
    "SearchResult",
    "Setting",
    "Shortlists",
    "Space",
    "TargetData",
    "Trial",
    "TrialJournal",
    "TrialJudge",
    "TrialWatch",
    "TuneResult",
    "WeightSearch",
    "Weights",
    "_fitted",
    "_late",
    "best",
    "blended",
    "budget_of",
    "finalists",
    "likes_of",
    "metric_of",
    "mixed",
    "named",
    "near",
    "refit_seconds",
    "search",
    "short",
    "spread_out",
    "tune",
    "weighed",
]
