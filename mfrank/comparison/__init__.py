"""Comparison of models, including implicit's, on one split with equal measurements."""

from mfrank.comparison.contenders import DEFAULT_OBJECTIVES as DEFAULT_OBJECTIVES
from mfrank.comparison.contenders import default_models as default_models
from mfrank.comparison.contenders import fit_once as fit_once
from mfrank.comparison.contenders import objective_name as objective_name
from mfrank.comparison.contenders import objective_value as objective_value
from mfrank.comparison.contenders import usual_models as usual_models
from mfrank.comparison.foreign_families import ImplicitALS as ImplicitALS
from mfrank.comparison.opponents import OPPONENTS as OPPONENTS
from mfrank.comparison.opponents import ItemWeights as ItemWeights
from mfrank.comparison.protocol import peak_memory as peak_memory
from mfrank.comparison.scoreboard import Comparison as Comparison
from mfrank.comparison.side_by_side import DEFAULT_METRICS as DEFAULT_METRICS
from mfrank.comparison.side_by_side import compare as compare
from mfrank.comparison.tuned import _Recipe as _Recipe
