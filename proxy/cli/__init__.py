"""The command line. `main` holds the commands; what they print for people is in `render`.

Keeps start-up light: nothing here imports the server or the demo; the commands that need them load them.
"""
