"""GET /openapi.json: every route of this gateway, described.

`answers.py` has the shapes of what the gateway itself answers, `operations.py` is the table of the routes that are no
serving routes, `routes.py` joins both tables with the routes that there are and answers with the document.
"""
