"""The OpenAPI 3.1 document of this gateway: what its routes take and answer, put together from the tables of the code.

`operation.py` has the words in which a route is described, `shapes.py` turns request types and their rules into JSON
Schema, `inference.py` is the table of the serving routes, and `document.py` joins descriptions with the routes that
there are. The routes of the gateway itself are described beside their handlers' room, in `control/openapi/`.
"""
