"""Rows D of Table 3 in small where base overfits: with half of the sentences, and longer (paper §5.4 and §6.2).

    python benchmarks/table3_few.py      # 25 runs: 50 minutes on one CPU core

The recipe of table3.py but for 2,000 pairs to learn from, with a vocabulary made of these, and 1,600 steps: 52 passes
in place of 18. Writes results/table3_few.json, which the page on few pairs reads. Beside what table3.py measures,
`curve` is the validation loss after every eighth of the steps, and `train_loss` that of the pairs learned from, at the
end; both are without dropout and against the hard targets, as val_loss is.
"""
import table3

ROWS = ('base', 'D1', 'D2', 'D3', 'D4')
NOTE = 'curve: val_loss after every eighth of the steps. train_loss: the same of the training pairs, at the end.'

if __name__ == '__main__':
    table3.main(script=__file__, doc=__doc__, steps=1600, rows=ROWS, note=NOTE, pairs=2000, points=8)
