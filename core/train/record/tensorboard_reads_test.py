"""Checks that TensorBoard reads the files that write_events has written to the folder argv[1]."""

import sys

from tensorboard.backend.event_processing import event_accumulator

accumulator = event_accumulator.EventAccumulator(sys.argv[1])
accumulator.Reload()


def expect(tag, steps_and_values):
    found = [(event.step, event.value) for event in accumulator.Scalars(tag)]
    if found != steps_and_values:
        sys.exit(f"{tag}: expected {steps_and_values}, found {found}")


tags = ["loss_metrics/global_avg_loss", "memory/max_active(GiB)", "validation_metrics/loss"]
if sorted(accumulator.Tags()["scalars"]) != tags:
    sys.exit(f"expected {tags}, found {accumulator.Tags()['scalars']}")
# Steps 5 and 6 are those of the second file, which began after step 4.
expect(
    "loss_metrics/global_avg_loss",
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5.25), (6, 6.25), (7, 7.25), (8, 8.25)],
)
expect("memory/max_active(GiB)", [(step, 0.5) for step in range(1, 9)])
expect("validation_metrics/loss", [(2, 20), (4, 40), (6, 60.25), (8, 80.25)])
