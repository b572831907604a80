"""After the fact: exports, verification, import. Reads what the store kept; never touches a running exchange.

`checking` says whether a chain holds; `jsonl` writes the complete export and `reading` reads one back, checked;
`verify` and `restore` are built on them; `chat`, `tables` and `transcript` are the shorter formats.
"""
