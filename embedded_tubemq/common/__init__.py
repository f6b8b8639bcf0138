"""What master, broker and stores share: topics, codes, refusals, faults on purpose."""
