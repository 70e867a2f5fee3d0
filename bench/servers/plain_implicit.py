"""A service as one writes it in a few lines: FastAPI, implicit, the same factors. For serving.py.

python bench/servers/plain_implicit.py FOLDER PORT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import scipy.sparse as sp
import uvicorn
from fastapi import Body, FastAPI
from implicit.cpu.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

application = FastAPI()
folder = Path(sys.argv[1])
threadpool_limits(1, "blas")  # as implicit asks for
model = AlternatingLeastSquares.load(folder / "implicit.npz")
user_items = sp.csr_matrix(sp.load_npz(folder / "user_items.npz"))


@application.get("/recommend/{user}")
def recommend(user: int, n: int = 10) -> dict[str, Any]:
    """Best items of a user."""
    ids, scores = model.recommend(user, user_items[user], N=n)
    pairs = zip(ids.tolist(), scores.tolist(), strict=True)
    return {"user": user, "items": [{"id": i, "score": score} for i, score in pairs]}


@application.post("/recommend")
def batch(users: list[int] = Body(), n: int = Body(10)) -> dict[str, Any]:  # noqa: B008
    """Best items of many users."""
    ids, scores = model.recommend(users, user_items[users], N=n)
    lists = zip(users, ids.tolist(), scores.tolist(), strict=True)
    return {
        "lists": [
            {
                "user": user,
                "items": [{"id": i, "score": s} for i, s in zip(own, its, strict=True)],
            }
            for user, own, its in lists
        ]
    }


if __name__ == "__main__":
    config = {"access_log": False, "log_level": "warning"}
    uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[2]), **config)
