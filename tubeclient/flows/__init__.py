"""What the client does, step by step, without doing any I/O itself.

A flow is a generator that yields effects (see `effects`) and is sent their results; failures are thrown into it.
`tubeclient.net.runner` carries the effects out over sockets and real time, a simulation carries them out over
anything else. Flows hold the policy: order, retries, deadlines, meaning of codes.
"""
