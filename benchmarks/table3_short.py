"""Table 3 in small with a third of the steps: what the length of training does to its rows (paper §6.2).

    python benchmarks/table3_short.py      # 33 minutes on one CPU core

The recipe of table3.py but for 400 steps, and three seeds a row. Writes results/table3_short.json, which the lesson on
variations sets beside results/table3.json. (That file was made when table3.py itself took 400 steps; base had two seeds
more than the other rows then.)
"""
import table3

if __name__ == '__main__': table3.main(script=__file__, doc=__doc__, seeds=3, steps=400)
