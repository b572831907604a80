"""Two stores behind one protocol (`base`), opened by URL (`open`); no SQL, cursor or row leaves this package.

sqlite              the store: hands batches to the writer and questions to the read pool
sqlite_writer       the one thread that writes: group commit, failures, gaps
rows         a batch into its tables;  sqlite_index  the full-text index behind them
sqlite_pool         read-only connections in threads;  reader, deltas  the questions
sqlite_connection   opening files, errors;  migrations  the schema in numbered steps
codec, search_query pure helpers that any backend can use;  null  a store that keeps nothing
"""
