"""The scripted tasks with a real model, behind any OpenAI-compatible endpoint.

`briefing` says in the user's words what is to be called where something is checked; `stage` stands between the proxy
and the endpoint and plays the rest of the story; `endpoint` asks the model; `purse` keeps within the money;
`playing` makes a task of it; `series` repeats tasks and keeps what was done, `summary` sums up; `opening` finds the
model's key and prices.
"""
