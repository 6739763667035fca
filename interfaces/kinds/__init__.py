"""The plain kinds. A module has what can be sent, the operations, and the declaration of its kind.

The operations check a JSON body and the caller's rights and call a service. REST and GraphQL make
their calls from the declaration, and render the results.
"""
