"""The cold side of the counters: sliding windows over slices of time, and the workers' figures as one."""
