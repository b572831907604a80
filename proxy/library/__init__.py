"""The selector and the store as a library: `facade` is what users import, `writing` adds, `asking` makes windows."""
