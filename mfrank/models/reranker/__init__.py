"""Two-stage recommendation: a model's candidates, re-ranked by CatBoost's trees."""
