"""The process that Spark forks its Python workers from, with the imports they need already done.

A worker that has to import numba, pyarrow and the compiled kernels first would make every job's first batch, and every
batch after an idle while, seconds slower.
"""

import gc

from pyspark import daemon


def import_what_workers_need() -> None:
    import pyspark.sql.datasource
    import pyspark.sql.pandas.serializers  # noqa: F401

    import headwater.flow.operate.deduplicator
    import headwater.flow.operate.reports
    import headwater.flow.operate.window_operator
    import headwater.flow.operators.windows.kinds.registry
    import headwater.flow.source.data_source  # noqa: F401
    from headwater.flow.worker_memory import keep_freed_memory

    keep_freed_memory()
    compile_kernels()
    # Spark lets a worker collect garbage after every task. What was imported for good is then not looked at again.
    gc.collect()
    gc.freeze()


def compile_kernels() -> None:
    """Those that every job needs; numba keeps them for the processes that come later."""
    from headwater.flow.operators.aggregation import extremes
    from headwater.flow.source import warming
    from headwater.flow.state.runs import hash_search as searching
    from headwater.flow.state.runs import sorting

    warming.warm_up()
    extremes.warm_up()
    searching.warm_up()
    sorting.warm_up()


if __name__ == "__main__":
    import_what_workers_need()
    daemon.manager()
