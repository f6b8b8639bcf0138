"""What commits say of a group: the record of each, the state they add up to, where a run may begin. Pure."""
