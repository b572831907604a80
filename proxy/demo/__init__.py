"""A session that anyone can watch: scripted provider, scripted agent, the real proxy between them. Start in `run`."""
