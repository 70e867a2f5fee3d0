"""Fit a ranking loss to a file of interactions by stochastic descent, and save the model.

Begins with random factors or, better, with those of a saved model. After Ctrl-C, or where a
checkpoint cannot be written, the last complete epoch is saved; with --checkpoint the same line then
goes on where it was.
"""

from __future__ import annotations

import argparse
import sys

from mfrank import optimisers, schedules
from mfrank.cli.flags import add_flags, given
from mfrank.cli.inputs import add_table_flags, read_table
from mfrank.cli.saving import save_what_there_is, told
from mfrank.cli.specs import spec_reader, summaries
from mfrank.langevin import Langevin
from mfrank.models import Descent, load
from mfrank.models.options import losses

EXAMPLES = """\
  mfrank descend ratings.csv --start als --model ranked --loss song --factors 64
  mfrank descend ratings.csv --model ranked --shared-others --likes 30 --others 4096
  mfrank descend ratings.csv --model ranked --loss ksong:k=20 --optimiser adam:learning_rate=0.003
"""

_LOSSES = {name.lower(): loss for name, loss in losses().items()}
_OPTIMISERS = {
    rule.__name__.lower(): rule
    for rule in (optimisers.Adam, optimisers.Adagrad, optimisers.SGD, Langevin)
}
_SCHEDULES = {
    schedule.__name__.lower(): schedule
    for schedule in (schedules.Constant, schedules.StepDecay, schedules.CosineDecay)
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank descend``."""
    parser.add_argument("interactions", metavar="FILE", help="the interactions to fit to")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="where to save the model")
    parser.add_argument("--start", metavar="FOLDER", help="a saved model of as many factors")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="keeps the state of each epoch")
    add_table_flags(parser)
    for name, family in (
        ("loss", _LOSSES),
        ("optimiser", _OPTIMISERS),
        ("schedule", _SCHEDULES),
    ):
        parser.add_argument_group(name, summaries(family)).add_argument(
            f"--{name}",
            type=spec_reader(family, name),
            default=argparse.SUPPRESS,
            metavar="NAME:OPTION=VALUE,...",
            help=f"one of these (default: {type(getattr(Descent(), name)).__name__.lower()})",
        )
    add_flags(
        parser.add_argument_group("descent"), Descent, leave_out=["loss", "optimiser", "schedule"]
    )


def run(args: argparse.Namespace) -> None:
    """Fit and save."""
    model = Descent(**given(args, Descent))
    start = None if args.start is None else load(args.start)
    data = read_table(args, args.interactions)
    try:
        model.fit(data, start=start, checkpoint=args.checkpoint, show_progress=sys.stderr.isatty())
    except (KeyboardInterrupt, OSError):  # such as a full disk where the checkpoint is
        save_what_there_is(model, args.model)
        raise
    model.save(args.model)
    print(told(model, model.loss, data, args.model))
