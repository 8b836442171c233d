"""The process group: one supervisor with the configuration, the sockets and the admin HTTP port, and its workers.

options.py              every option: its name, its reader, its help text
option_readers.py       how the texts of options are read
replica_options.py      reads from replicas by --read-from, and warnings about zones
config.py               command line over environment over config file -> Settings
supervisor.py           start, serve, reload, stop
open_files.py           the limit of open files: how many clients and connections there is room for
files.py                reads the files that the settings name, at the start
exposure.py             warnings about listeners and upstreams that anybody can reach
listeners.py            the listening sockets: bound once, handed to workers
workers.py              the worker processes: starts, asks, replaces and drains them
hung_workers.py         finds a worker that hangs
run_queue.py            how long a worker has waited for a CPU
worker_sharing.py       the shared memory of workers
worker_process.py       one worker process: its channel and its reports
worker_orders.py        orders that it follows and confirms
worker_start.py         its start, before it is told which worker it is
descriptors.py          open files that the supervisor hands to it
worker.py               the worker process itself
worker_reports.py       what it tells the supervisor of its routes
worker_leases.py        its shares of rate limits
control.py              messages between supervisor and workers
requests.py             requests between processes: replies, timeouts, errors
group_plans.py          the plans that workers run, made once for all of them
reload.py               the policies in force, and their all-or-none reload
policy_file_watcher.py  reloads policies when their files change
effective_settings.py   the settings in force, without secrets, as /config shows them
policy_tests.py         runs the tests of policies when they come into force
kill_switch.py          suspends all rules but locked ones for a while
leases.py               rate limits shared by workers
remedies.py             temporary limits on one key
incidents.py            finds and keeps incidents
violations.py           where violations are logged
line_writer.py          whole lines at the end of a file, also after the disk was full
whole_file.py           replaces a file as a whole
evidence/               what rules have found, what is kept of it, and what it says of policies
rule_stats.py           what each rule has found, for /rules
process_figures.py      how busy a process is, a worker or the supervisor
node_names.py           what operators call the nodes of a cluster, the same in all workers
node_views.py           the nodes of a cluster as all workers see them
node_metrics.py         Prometheus metrics about the nodes of clusters
figures.py              counters of all workers, summed
readiness.py            why Keyrail or one of its routes is not ready, for /readyz
group_info.py           the answers to clients and operators about the whole group
metrics.py              Prometheus metrics
compression_metrics.py  Prometheus metrics about rules that compress values
cache_metrics.py        Prometheus metrics about the local cache
traffic_metrics.py      Prometheus metrics about traffic
anonymous_metrics.py    metrics without names of keys and clients
notices.py              log lines for the operator
writer_thread.py        writes that somebody else can stall
node_changes.py         log lines about the nodes of a cluster
announcements.py        the ready line, and each change of a route's readiness
stored_keys.py          the last scan and what was written since, for rules about what is stored
stored/                 what is stored already, judged by a policy
state_folder.py         the folder of what survives a restart (``--state-dir``), and its one owner
state_file.py           the kill switch and remedies, which survive a restart
evidence/               the evidence that is kept, in that folder or in memory
hot_restart.py          hot restart: a new process takes over the sockets
service_manager.py      systemd notifications (``Type=notify``)
admin/                  the admin HTTP port
"""
