// The types of the page, for the type checker alone: neither browsers nor wheels get this file.
//
// First the types that /events, /remedies and /report send, then those that the page derives. A test checks the first part against a Keyrail
// that runs. Times are ISO 8601; rates are per second; unknown values are null.

export interface Client {
  /** Of its user, name and address: for `keyrail remedy --client`. */
  id: string;
  app: string;
  user: string;
  client_name: string;
  library: string;
  address: string;
}

/** One of the clients behind a key. */
export interface KeyClient extends Client {
  share: number;
  new: boolean;
}

/** Whose key it is, and the name by which they know it. */
export interface Tenant {
  /** Null if the key does not tell it. */
  app: string | null;
  key: string;
}

export interface HotKey {
  key: string;
  /** Of a key of a tenant; missing where the policy has no tenants. */
  tenant?: Tenant | null;
  count: number;
  error: number;
  share: number;
  reads: number;
  writes: number;
  /** The share of its reads that were answered from memory. */
  cached_share: number;
  /** The share of its reads that went to replicas. */
  replica_share: number;
  whole: boolean;
  bytes_in: number;
  bytes_out: number;
  hit_ratio: number | null;
  pattern: string | null;
  /** Seconds; -1 for a key without a TTL. */
  ttl: number | null;
  rate: number;
  now: number;
  slot: number;
  hot: boolean;
  before: number | null;
  since: string | null;
  clients: KeyClient[];
  other_clients: number;
}

export interface Pattern {
  pattern: string;
  schema: boolean;
  app: string;
  rate: number;
  reads: number;
  writes: number;
  bytes_in: number;
  bytes_out: number;
  hit_ratio: number | null;
  ttl_share: number | null;
  largest: number;
  largest_key: string;
  largest_stored: number | null;
  largest_tenant?: Tenant | null;
  p50_ms: number | null;
  p99_ms: number | null;
  runs: number;
}

export interface Slot {
  share: number;
  rate: number;
  slot: number;
  keys: string[];
  /** Of its keys. */
  tenants?: (Tenant | null)[];
}

export interface Tag {
  share: number;
  rate: number;
  tag: string;
}

export interface BusyClient extends Client {
  /** Connections per second that have ended, and seconds of each second at Redis, of all clients with this id. */
  connects: number;
  redis_time: number;
  rate: number;
  share: number;
  bytes_in: number;
  bytes_out: number;
  refused: number;
}

export interface SlowCommand extends Client {
  time: string;
  command: string;
  key: string | null;
  /** Of a key of a tenant; missing where the policy has no tenants. */
  tenant?: Tenant | null;
  at_redis_ms: number | null;
  in_proxy_ms: number | null;
  bytes_in: number;
  bytes_out: number;
}

/** A second of traffic, or the sums of ten. */
export interface Stretch {
  at: string;
  commands: number;
  keys: number;
  p50_ms: number | null;
  p99_ms: number | null;
  proxy_p50_ms: number | null;
  proxy_p99_ms: number | null;
  bytes_in: number;
  bytes_out: number;
  refused: number;
}

export interface Incident {
  id: string;
  route: string;
  kind: string;
  subject: string;
  /** Of a key of a tenant; missing where the policy has no tenants. */
  tenant?: Tenant | null;
  about: string;
  began: string;
  ended: string | null;
  lines: string[];
  figures: IncidentFigures | null;
  peak: { at: string; size: number } | null;
  before: number | null;
  slot: number | null;
  cap: Limit | null;
  event: { what: string; at: string } | null;
  remedies: number[];
}

/** A hot key's figures when it was found last. */
export interface IncidentFigures {
  at: string;
  window: number;
  count: number;
  error: number;
  rate: number;
  share: number;
}

export interface Remedy {
  id: number;
  route: string;
  action: "cap" | "cache" | "refuse" | "close";
  /** Without a key it is about commands: of a client, of one name, or of an app. */
  key: string | null;
  /** Of a key of a tenant; missing where the policy has no tenants. */
  tenant?: Tenant | null;
  client: string | null;
  command: string | null;
  app: string;
  rate: string | null;
  local_cache: boolean;
  since: string;
  until: string;
  because: string;
  refused: number;
  answered: number;
}

/** Uses that a remedy would have refused, all uses of its app, and those that only read. */
export interface Effect {
  used: number;
  refused: number;
  reads: number;
}

export interface KillSwitch {
  on: boolean;
  since?: string;
  until?: string;
  because?: string;
  survives_restart: boolean;
}

export interface Rule {
  rule: string;
  mode: string;
  where: string;
  hits: Record<string, number>;
  compressed: Compressed | null;
}

/** What a rule has compressed, or would have. Seconds are of a processor. */
export interface Compressed {
  saved_bytes: number;
  /** Null before the first value. */
  ratio: number | null;
  seconds: number;
  decompressed_seconds: number;
}

export interface Policy {
  source: string;
  generation: number;
  reload_failures: number;
  kill_switch: KillSwitch;
  rules: Rule[];
  other_rules: number;
}

export interface HotKeys<Key> {
  window: number;
  age: number;
  /** When the snapshot was taken. */
  at: string;
  rate: number;
  keys: Key[];
  /** Whether the policy lets keys be counted. */
  counted: boolean;
}

/** A node of a cluster. */
export interface ClusterNode {
  node: string;
  id: string;
  address: string;
  role: string;
  /** The primary of a replica, by its name. */
  primary: string;
  /** The first and the last of each range. */
  slots: number[][];
  /** Slots that move. */
  open: number[];
  health: string;
  /** Why there is no connection. */
  lack: string;
  /** Bytes. */
  lag: number | null;
  lag_seconds: number | null;
  rate: number;
  commands: number;
  connections: number;
  ping_ms: number | null;
  /** Whether a replica answers reads for its primary now. */
  serves: boolean;
  /** Reads that it was sent for its primary. */
  reads: number;
  reads_resent: number;
  read_errors: number;
  pending: number;
  info: NodeInfo | null;
}

/** What INFO says of a primary; what it does not say is missing. */
export interface NodeInfo {
  total_keys: number;
  total_expires: number;
  /** Milliseconds. */
  average_ttl: number;
  used_memory?: number;
  used_memory_dataset?: number;
  used_memory_rss?: number;
  maxmemory?: number;
  mem_fragmentation_ratio?: number;
  total_system_memory?: number;
  evicted_keys?: number;
  expired_keys?: number;
}

/** Replies that the local cache has sent, or would have sent. */
export interface FromMemory {
  hits: number;
  bytes: number;
  saved_redis_seconds: number;
}

export interface LocalCache {
  window: number;
  age: number;
  /** Those in force; without any there is no cache. */
  rules: string[];
  enforce: FromMemory;
  audit: FromMemory;
  hit_ratio: number | null;
  /** Seconds. */
  mean_age: number | null;
  misses: number;
  fills: number;
  fills_in_vain: number;
  invalidations: number;
  evictions: number;
  entries: number;
  memory_bytes: number;
  memory_limit_bytes: number;
  hot_keys: number;
  changing_keys: number;
  connections: number;
  /** Databases of workers without a connection for invalidations. */
  off: number;
}

export interface Overview<Key = HotKey> {
  at: string;
  route: string;
  routes: string[];
  window: number;
  version: string;
  keyrail: { ready: boolean; reasons: string[]; warnings: string[]; workers: number; upstream: string | null; clients: number };
  policy: Policy;
  hotkeys: HotKeys<Key>;
  patterns: { window: number; age: number; patterns: Pattern[]; other: { patterns: number; rate: number } };
  slots: { window: number; age: number; heat: number[]; slots: Slot[]; tags: Tag[]; crossslot: number };
  clients: { window: number; age: number; clients: BusyClient[]; other: { clients: number; rate: number } };
  slow: { commands: SlowCommand[] };
  nodes: ClusterNode[];
  local_cache: LocalCache;
  seconds: Stretch[];
  incidents: Incident[];
  remedies: Remedy[];
  apps: string[];
  takes_orders: boolean;
}

/** The past of the busiest keys: the rates of each at the same moments. */
export interface Earlier {
  at: string[];
  keys: { key: string; slot: number; rates: number[] }[];
}

export interface History {
  seconds: Stretch[];
  tens: Stretch[];
  keys: Earlier;
}

/** Empty fields are left out; with `dropped` it stands for so many that were not sent. */
export interface Violation extends Partial<Client> {
  time: string;
  route: string;
  rule: string;
  dropped?: number;
  mode?: string;
  what?: string;
  why?: string;
  command?: string;
  shape?: string;
  key?: string;
  tenant?: Tenant;
  keys?: number;
}

/** The answer of /report. */
export interface Report {
  since: string | null;
  until: string | null;
  watched_seconds: number;
  gaps: string[][];
  /** What could not be recorded, by reason. */
  lost: Record<string, number>;
  commands: number;
  teams: { team: string; contact: string; refused: number; apps: { app: string; commands: number; findings: Finding[] }[] }[];
  silent: { route: string; rule: string; where: string; out_of: number; of_no_entry: number | null; proof: string }[];
  unused_exceptions: Exception[];
  ending_exceptions: Exception[];
  quotas: Quota[];
}

/** How a rule stands that judges by the last scan. */
export interface Quota {
  route: string;
  rule: string;
  /** When it began; null if there is none, and missing says why. */
  scan: string | null;
  missing: string;
  max_age_seconds: number;
  age_seconds: number | null;
  judges: boolean;
  per: string;
  keys: number | null;
  bytes: number | null;
  owners: Record<string, Record<string, number | boolean>>;
}

/** What one rule has done, or would do, to the commands of one app. */
export interface Finding {
  route: string;
  rule: string;
  where: string;
  mode: string;
  outcome: string;
  harmless: boolean;
  because: string;
  instead: string;
  contact: string;
  count: number;
  out_of: number;
  share: number;
  hits: Record<string, number>;
  first_seen: string;
  last_seen: string;
  /** Seconds since the epoch, and the count of that hour. */
  hours: number[][];
  not_told_apart: number;
  clients: FindingClient[];
  commands: { command: string; count: number }[];
  shapes: { shape: string; count: number }[];
  /** In Redis, keys of a tenant are behind the prefix; it is empty for others. */
  exemplars: { words: string[]; at: string; why: string; prefix: string }[];
  exceptions: Exception[];
}

export interface FindingClient {
  user: string;
  client_name: string;
  library: string;
  address: string;
  count: number;
}

export interface Exception {
  /** Left out in findings. */
  route?: string;
  rule: string;
  app: string;
  keys: string;
  because: string;
  until: string | null;
  then: string | null;
  where: string;
}

// Types that the page derives

/** A rule in the matrix of what would break. */
export interface MatrixRow {
  rule: string;
  cells: Map<string, MatrixCell>;
  weight: number;
}

/** The findings of a rule and an app: the sum of those that break something, or else of all. */
export interface MatrixCell {
  findings: Finding[];
  breaks: boolean;
  count: number;
  out_of: number;
  share: number;
  past: Past[];
}

/** What the address has of it. */
export interface ReportView {
  since: string | null;
  filter: string | null;
  cell: string | null;
}

/** An `id` that no other key on the page has. */
export interface ShownKey extends HotKey {
  id: string;
}

/** With its place among all, which gives its colour, and its share of the reads that replicas answer. */
export interface ShownNode extends ClusterNode {
  place: number;
  share: number | null;
}

/** With the name of its node; empty without a cluster. */
export interface ShownSlot extends Slot {
  node: string;
}

export type ShownOverview = Overview<ShownKey>;

export interface ShownViolation extends Violation {
  number: number;
}

/** With its time in milliseconds. */
export interface ShownStretch extends Stretch {
  time: number;
}

/** The rate of a key at a time in milliseconds. */
export interface Past {
  time: number;
  rate: number;
}

/** A limit on a key, as the remedy form and the command line take it. */
export interface Limit {
  app: string;
  rate: string;
}

/** What a remedy does. */
export type Kind = "cache" | "cap";

/** The remedies that a key can have, the first one advised. */
export interface Choice {
  kinds: Kind[];
  limit: Limit;
}

export type Connection =
  | { kind: "live" }
  | { kind: "lost"; since: Date }
  | { kind: "refused"; text: string; status: number }
  | { kind: "token"; wrong: boolean };

/** Builds a cell once, and returns the function that fills it. */
export type Cell<Row> = (cell: HTMLTableCellElement) => (row: Row) => void;

export interface Column<Row> {
  label: string;
  hint?: string;
  kind?: "number" | "text";
  /** The width in pixels that the panel must have to show it; page.css knows which there are. Always, where it is left out. */
  from?: number;
  /** The sort key of rows: the header becomes a button. */
  sort?: (row: Row) => string | number | null;
  cell: Cell<Row>;
}

export interface Line<Second> {
  label: string;
  value: (second: Second) => number | null;
}

export interface ChartOptions<Second> {
  title: string;
  hint?: string;
  format: (value: number | null) => string;
  /** The top of the chart is never below this. */
  least: number;
  /** The first is the figure's own. */
  lines: Line<Second>[];
}

/** The answer of /schema. */
export interface SchemaAnswer {
  routes: { route: string; entries: SchemaEntry[] }[];
}

/** One pattern of keys; what it does not say is left out. */
export interface SchemaEntry {
  title: string;
  key: string;
  about?: string;
  app?: string;
  example?: string;
  type?: string;
  /** Seconds, or "none". */
  ttl?: string | { default?: number; min?: number; max?: number; required?: boolean; sliding?: boolean };
  size?: { max?: number; members?: number; members_per_write?: number };
  fields?: Record<string, string>;
  relates_to?: string[];
}

/** What `/stored` answers. */
export interface Stored {
  scan: StoredScan | null;
  left_off: Record<string, number>;
}

export interface StoredScan {
  version: number;
  upstream: string;
  policy: string;
  started: string;
  ended: string;
  finished: boolean;
  share: number;
  keys: number;
  bytes: number;
  expected_missed: number;
  sample: { share: number; drawn: number; of: number } | null;
  notes: string[];
  ttl_bounds: number[];
  apps: StoredApp[];
  patterns: (StoredRow & { pattern: string; app: string })[];
  faults: { fault: string; app: string; enforced: number; milder: number; unsure: number; excepted: number }[];
  findings: StoredFinding[];
  largest: StoredKey[];
  nodes: Record<string, unknown>[];
  tags: { shape: string; keys: number; why: string }[];
  slots: { used: number; heaviest: { slot: number; keys: number; bytes: number }[] };
  /** Of each rule that compresses: its keys, by the form of their values. */
  forms: Record<string, unknown>[];
}

export interface StoredRow {
  team: string;
  keys: number;
  bytes: number;
  unmeasured: number;
  without_ttl: number;
  ttls: number[];
  types: Record<string, number>;
}

export interface StoredApp extends StoredRow {
  app: string;
}

export interface StoredFinding {
  rule: string;
  fault: string;
  pattern: string;
  app: string;
  mode: string;
  sure: boolean;
  text: string;
  by: number;
  keys: number;
  excepted: number;
  bytes: number;
  exemplars: string[];
}

export interface StoredKey {
  key: string;
  tenant?: Tenant;
  pattern: string;
  app: string;
  memory: number;
  type: string;
  members: number | null;
  /** Milliseconds. */
  ttl: number | null;
  node: string;
  database: number;
}

/** The elements of page.html whose kind matters, by their id; a test compares them. */
export interface Elements {
  "details": HTMLDialogElement;
  "details-clients": HTMLTableElement;
  "keys-table": HTMLTableElement;
  "patterns-table": HTMLTableElement;
  "slots-table": HTMLTableElement;
  "nodes-table": HTMLTableElement;
  "tags-table": HTMLTableElement;
  "clients-table": HTMLTableElement;
  "slow-table": HTMLTableElement;
  "violations-table": HTMLTableElement;
  "rules-table": HTMLTableElement;
  "finding": HTMLDialogElement;
  "report-filter": HTMLInputElement;
  "report-since": HTMLSelectElement;
  "report-table": HTMLTableElement;
  "stored-findings": HTMLTableElement;
  "stored-largest": HTMLTableElement;
  "stored-owners": HTMLTableElement;
  "schema-entries": HTMLTableElement;
  "remedy-app": HTMLSelectElement;
  "remedy-because": HTMLInputElement;
  "remedy-do": HTMLButtonElement;
  "remedy-for": HTMLSelectElement;
  "remedy-form": HTMLFormElement;
  "remedy-kinds": HTMLFieldSetElement;
  "remedy-limit": HTMLFieldSetElement;
  "remedy-rate": HTMLInputElement;
  "route": HTMLSelectElement;
  "token": HTMLDialogElement;
  "token-form": HTMLFormElement;
  "token-input": HTMLInputElement;
  "violations-of": HTMLSelectElement;
}
