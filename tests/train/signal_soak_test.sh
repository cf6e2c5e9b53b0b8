#!/bin/bash
# The short form of signal_soak.
exec tests/train/signal_soak 3 models/gpt/train
