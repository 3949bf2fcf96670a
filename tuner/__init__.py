"""How a lever is measured and judged: workload, bench, metrics, statistics, verdict, ladder, climb."""
