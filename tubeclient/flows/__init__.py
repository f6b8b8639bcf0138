"""The client's logic, step by step, without I/O.

A flow is a generator that yields effects (see `effects`) and receives their results; failures are thrown into it.
`tubeclient.net.runner` executes the effects with sockets and real time, a simulation with anything else. Flows contain
the policy: order, retries, deadlines, meaning of codes.
"""
