"""Fit a ranking loss to a file of interactions by stochastic gradient descent and save the model.

Starts from spectral factors (--init) or, better, from the factors of a saved model (--start). After
Ctrl-C, or if a checkpoint cannot be written, the last complete epoch is saved; with --checkpoint,
the same command then resumes after that epoch.
"""

from __future__ import annotations

import argparse

from mfrank.cli.flags import add_cluster_flag, add_flags, given, spec_reader, summaries
from mfrank.cli.inputs import read_left_out, read_table
from mfrank.cli.model_folders import Destination, add_keep_flag, read_model
from mfrank.cli.printing import announce, saved_when_fitted, somebody_watches, told
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags
from mfrank.cluster import check_cluster
from mfrank.descent import SGD, Adagrad, Adam, Constant, CosineDecay, Langevin, StepDecay
from mfrank.models import Descent, loss_classes

EXAMPLES = """\
  mfrank descend ratings.csv --start als --model ranked --loss song --factors 64
  mfrank descend ratings.csv --model ranked --shared-negatives --positives 30 --negatives 4096
  mfrank descend ratings.csv --model ranked --loss ksong:k=20 --optimizer adam:learning_rate=0.003
  mfrank descend ratings.csv --model ranked --cluster tcp://10.0.0.1:8786
"""

_LOSSES = {name.lower(): loss for name, loss in loss_classes().items()}
_OPTIMIZERS = {rule.__name__.lower(): rule for rule in (Adam, Adagrad, SGD, Langevin)}
_SCHEDULES = {
    schedule.__name__.lower(): schedule for schedule in (Constant, StepDecay, CosineDecay)
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank descend``."""
    parser.add_argument("interactions", metavar="FILE", help="the interactions to fit to")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="where to save the model")
    parser.add_argument(
        "--start", metavar="FOLDER", help="a saved model with the same number of factors"
    )
    parser.add_argument(
        "--checkpoint", metavar="FOLDER", help="where to save the state after each epoch"
    )
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)
    for name, family in (
        ("loss", _LOSSES),
        ("optimizer", _OPTIMIZERS),
        ("schedule", _SCHEDULES),
    ):
        parser.add_argument_group(name, summaries(family)).add_argument(
            f"--{name}",
            type=spec_reader(family, name),
            default=argparse.SUPPRESS,
            metavar="NAME:OPTION=VALUE,...",
            help=f"one of these (default: {type(getattr(Descent(), name)).__name__.lower()})",
        )
    group = parser.add_argument_group("descent")
    add_flags(group, Descent, leave_out=["loss", "optimizer", "schedule"])
    add_cluster_flag(group, "train blocks of users and items", "for bpr, bce and sampledsoftmax")


def run(args: argparse.Namespace) -> None:
    """Fit and save."""
    destination = Destination.of(args.model)
    check_cluster(args.cluster)
    model = Descent(**given(args, Descent))
    start = None if args.start is None else read_model(args.start)
    data = read_table(args, args.interactions)
    left_out = read_left_out(args, data)
    announce(model.loss, data)
    with saved_when_fitted(model, destination, left_out, args.keep):
        model.fit(
            data,
            start=start,
            checkpoint=args.checkpoint,
            show_progress=somebody_watches(),
            cluster=args.cluster,
        )
    print(told(model, model.loss, data, args.model))
