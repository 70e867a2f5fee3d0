"""Two-stage recommendation: a model's candidates, put in a new order by CatBoost's trees."""
