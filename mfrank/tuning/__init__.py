"""The search for the best model of a table of interactions: :func:`mfrank.tune`."""

from mfrank.tuning.days import DayRecord, Former
from mfrank.tuning.event_weights import TargetData, WeightSearch
from mfrank.tuning.families import (
    BASELINES,
    EPOCHS,
    FAMILIES,
    OF_EVENTS,
    SPACE,
    Closed,
    Counted,
    Filter,
    Regression,
    named,
)
from mfrank.tuning.family import (
    ABILITIES,
    Axis,
    Facts,
    Family,
    Point,
    Setting,
    Space,
    checked_needs,
    lacking,
    near,
    short,
    spread_out,
)
from mfrank.tuning.ladder import Ladder, best
from mfrank.tuning.leaderboard import Leaderboard
from mfrank.tuning.mixture import (
    MOST_PARTS,
    BlendPart,
    Shortlists,
    Weights,
    _late,
    finalists,
    mixed,
    weighed,
)
from mfrank.tuning.one_call import TuneResult, _fitted, tune
from mfrank.tuning.outcomes import Outcome, Trial
from mfrank.tuning.own_ladder import GridTried
from mfrank.tuning.own_options import Choices, Range, option_of
from mfrank.tuning.own_space import OwnFamily, own_space
from mfrank.tuning.search_result import SearchResult, budget_of, likes_of, search
from mfrank.tuning.successive_halving import CAUTION, Budget, Search, refit_seconds
from mfrank.tuning.summary import Lead, Serving, code_of
from mfrank.tuning.timed_families import TIMED_SPACE, Recent
from mfrank.tuning.trial_journal import TrialJournal, days_of
from mfrank.tuning.trials import Predict, Runner, TrialJudge, TrialWatch, check_predict

__all__ = [
    "ABILITIES",
    "BASELINES",
    "CAUTION",
    "EPOCHS",
    "FAMILIES",
    "MOST_PARTS",
    "OF_EVENTS",
    "SPACE",
    "TIMED_SPACE",
    "Axis",
    "BlendPart",
    "Budget",
    "Choices",
    "Closed",
    "Counted",
    "DayRecord",
    "Facts",
    "Family",
    "Filter",
    "Former",
    "GridTried",
    "Ladder",
    "Lead",
    "Leaderboard",
    "Outcome",
    "OwnFamily",
    "Point",
    "Predict",
    "Range",
    "Recent",
    "Regression",
    "Runner",
    "Search",
    "SearchResult",
    "Serving",
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
    "budget_of",
    "check_predict",
    "checked_needs",
    "code_of",
    "days_of",
    "finalists",
    "lacking",
    "likes_of",
    "mixed",
    "named",
    "near",
    "option_of",
    "own_space",
    "refit_seconds",
    "search",
    "short",
    "spread_out",
    "tune",
    "weighed",
]
