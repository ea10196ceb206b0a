"""The benchmark: `python -m bench` from the root of the checkout.

What is measured, and how, in the order one might read it:

shapes.py      the named sets of problems, each with its source
data.py        operands of a problem: random, in rotated buffers
candidates.py  what runs: ours, every rung of it, and the peers
timing.py      how a call is timed on each device, and how candidates take turns
check.py       what every timed result must satisfy
runner.py      one case after another, into a document
machine.py     what the measurements ran on: versions, clocks, power, ceilings
schema.py      what a document holds
results.py     checking, writing and reading documents
host.py        host time of one call (with native/, an operator that does nothing)
networks.py    a training step, and the products in it that must be right
training.py    training steps beside torch's: python -m bench.training
curves.py      the losses of a training run in several precisions
choice.py      times of every way to run a product: python -m bench.choice
choice_records.py  those times as files: python -m bench.choice_records
choice_fit.py  the fit of the choice's rules to them: python -m bench.choice_fit
choice_ablate.py  which tiles pay, by the same: python -m bench.choice_ablate
choice_terms.py  which terms of the formula pay, by the same: python -m bench.choice_terms
errors.py      errors of sums beside torch.mm's, by K: python -m bench.errors
decode.py      one to 64 rows with a layer's weight: python -m bench.decode
grouped.py     products of groups beside torch's: python -m bench.grouped
scaled.py      products of fp8 with scales beside torch's: python -m bench.scaled
tree.py        the tree order of sums beside one chain and torch: python -m bench.tree
out_of_core.py products streamed from host memory: python -m bench.out_of_core
cpu_table.py   the CPU's groups of cases beside torch.mm: python -m bench.cpu_table
share.py       figures of another card, in one file to send: python -m bench --share
plot.py        SVG plots, from documents only
cells.py       numbers as text, and which document a table is made from
terminal.py    the table that a run prints
report.py      the tables of README.md and docs/, from bench/results/ only
regimes.py          the kinds of products, on each card: README's and performance.md's tables
regime_plots.py     and their plots
ladder_tables.py    the ladder's
training_tables.py  those of training.py's documents
groups_table.py     that of cpu_table.py's
errors_table.py     those of errors.py's
decode_table.py     those of decode.py's
scaled_table.py     those of scaled.py's
out_of_core_table.py  those of out_of_core.py's
cli.py         the commands
"""
