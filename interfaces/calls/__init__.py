"""The changing calls of all doors, without those of plain kinds, which are in `kinds/`.

They check a JSON body and the caller's rights and call a service. The doors render the results.
"""
