#!/usr/bin/env python3
"""Holds the statistics of `longstream compare` against SciPy and paired-eval.

  compare_statistics.py --write tests/golden/compare/statistics.json
  compare_statistics.py --program build/release/tests/compare_intervals

--write makes the golden values that paired_statistics_test compares with. --program checks 200
random samples: the studentised bootstrap against scipy.stats.bootstrap of the t statistic, Holm's
correction and the mean against paired-eval, and the p-value against its permutation test. Prints the
largest differences; fails if one is above its bound.
"""

import argparse
import json
import subprocess
import sys

import numpy
import paired_eval
import scipy.stats

ALPHAS = [0.1, 0.05, 0.01]
SEED = 31


def samples_for_golden(random):
    """Samples as a comparison has them: symmetric, skewed, discrete, with outliers, small."""
    return {
        "normal_20": random.normal(0.02, 0.1, 20),
        "lognormal_20": random.lognormal(-3.5, 0.8, 20),
        "lognormal_200": random.lognormal(-3.5, 0.8, 200),
        "binomial_50": random.binomial(32, 0.04, 50) / 32,
        "outliers_50": numpy.where(random.random(50) < 0.08, 1, 0.05) * random.normal(0.1, 1, 50),
        "odd_23": random.standard_t(4, 23) + 0.7,
    }


def t_distribution(values, resamples, seed):
    """t* of all resamples, ascending, from scipy.stats.bootstrap."""
    mean, root = values.mean(), numpy.sqrt(len(values))

    def statistic(x, axis):
        return (x.mean(axis=axis) - mean) * root / x.std(axis=axis, ddof=1)

    result = scipy.stats.bootstrap((values,), statistic, method="percentile", vectorized=True,
                                   n_resamples=resamples, batch=10000,
                                   rng=numpy.random.default_rng(seed))
    return numpy.sort(result.bootstrap_distribution)


def bootstrap_t(values, resamples, seed):
    """Returns the intervals for ALPHAS and the p-value of the mean 0."""
    t = t_distribution(values, resamples, seed)
    mean, error = values.mean(), values.std(ddof=1) / numpy.sqrt(len(values))
    intervals = []
    for alpha in ALPHAS:
        low, high = numpy.quantile(t, [alpha / 2, 1 - alpha / 2])
        intervals.append([mean - high * error, mean - low * error])
    rarer = min((t >= mean / error).sum(), (t <= mean / error).sum()) + 1
    return intervals, min(1, 2 * rarer / (resamples + 1))


def prompts_to_find(ratio, tail, power):
    """The exact number for Student's test on one side: the power comes from the noncentral t."""
    count = 2
    while True:
        limit = scipy.stats.t.ppf(1 - tail, count - 1)
        if scipy.stats.nct.sf(limit, count - 1, numpy.sqrt(count) / ratio) >= power:
            return count
        count += 1


def write_golden(path):
    random = numpy.random.default_rng(SEED)
    golden = {"scipy": scipy.__version__, "alphas": ALPHAS, "samples": [], "holm": []}
    for name, values in samples_for_golden(random).items():
        intervals, p = bootstrap_t(values, 400_000, SEED)
        golden["samples"].append({
            "name": name, "values": values.tolist(), "deviation": values.std(ddof=1),
            "standard_error": scipy.stats.sem(values), "intervals": intervals, "p": p})
    for p_values in ([0.01, 0.04, 0.03, 0.005], [0.5], [0.02, 0.02, 0.9],
                     random.random(9).round(4).tolist()):
        golden["holm"].append({"p": p_values, "adjusted": paired_eval.holm_adjust(p_values)})
    golden["normal_quantiles"] = [
        [p, scipy.stats.norm.ppf(p)] for p in (1e-9, 0.0025, 0.2, 0.5, 0.8, 0.975, 0.9999)]
    golden["deviation_limits"] = [
        [count, numpy.sqrt((count - 1) / scipy.stats.chi2.ppf(0.2, count - 1))]
        for count in (5, 20, 50, 200)]
    golden["prompts_to_find"] = [
        [ratio, tail, power, prompts_to_find(ratio, tail, power)]
        for ratio in (1, 2, 5) for tail in (0.05, 0.025, 0.003) for power in (0.8, 0.9)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


def random_samples(random, count):
    for _ in range(count):
        size = int(random.integers(20, 201))
        kind = random.integers(4)
        if kind == 0:
            yield random.normal(random.normal(0, 0.1), 1, size)
        elif kind == 1:
            yield random.lognormal(0, 0.8, size) - 1.3
        elif kind == 2:
            yield random.standard_t(4, size)
        else:
            yield (random.binomial(64, 0.2, size) - random.binomial(64, 0.2, size)) / 64


class Largest:
    """The largest differences, each with its bound."""

    def __init__(self):
        self._seen = {}

    def add(self, name, difference, bound):
        self._seen[name] = (max(self._seen.get(name, (0, 0))[0], float(abs(difference))), bound)

    def report(self):
        for name, (difference, bound) in self._seen.items():
            print(f"{name:60} {difference:10.3g}  (bound {bound:g})")
        return all(difference <= bound for difference, bound in self._seen.values())


def check(program):
    random = numpy.random.default_rng(SEED + 1)
    resamples = 20_000
    samples = list(random_samples(random, 200))
    p_values = [random.random(int(random.integers(1, 12))).tolist() for _ in range(200)]
    question = {"seed": SEED, "resamples": resamples, "alphas": ALPHAS, "p_values": p_values,
                "samples": [values.tolist() for values in samples]}
    answer = json.loads(subprocess.run([program], input=json.dumps(question), check=True,
                                       capture_output=True, text=True).stdout)
    largest = Largest()
    for index, (values, ours) in enumerate(zip(samples, answer["samples"])):
        error = values.std(ddof=1) / numpy.sqrt(len(values))
        intervals, p = bootstrap_t(values, resamples, index)
        # Both sides draw at random; the bounds are about five standard errors of that.
        for alpha, bound, theirs, mine in zip(ALPHAS, (0.15, 0.2, 0.4), intervals,
                                              ours["intervals"]):
            for end in (0, 1):
                largest.add(f"SciPy: end of the {100 - 100 * alpha:g} % interval, standard errors",
                            (theirs[end] - mine[end]) / error, bound)
        largest.add("SciPy: p-value", p - ours["p"], 0.03)
        if index < 30:
            theirs = paired_eval.paired_compare(values.tolist(), [0.0] * len(values), 4000, index)
            largest.add("paired-eval: mean, standard errors",
                        (theirs["mean_diff"] - ours["mean"]) / error, 1e-9)
            # It has a percentile interval and a test by permuted signs. They tend to ours as the
            # number of prompts grows, and are only alike for symmetric samples.
            if abs(scipy.stats.skew(values)) < 0.5:
                largest.add("paired-eval: permutation p-value, symmetric samples",
                            theirs["p_value"] - ours["p"], 0.06)
                for end in (0, 1):
                    largest.add("paired-eval: end of the percentile interval, standard errors",
                                (theirs["diff_ci"][end] - ours["intervals"][1][end]) / error, 0.6)
    for values, ours in zip(p_values, answer["holm"]):
        for theirs, mine in zip(paired_eval.holm_adjust(values), ours):
            largest.add("paired-eval: Holm's adjusted p-value", theirs - mine, 1e-12)
    return largest.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--program", metavar="FILE")
    options = parser.parse_args()
    if options.write:
        write_golden(options.write)
    return 0 if not options.program or check(options.program) else 1


if __name__ == "__main__":
    sys.exit(main())
