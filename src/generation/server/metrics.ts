/** Counters and histograms in the text format of Prometheus, version 0.0.4. */

type Labels = Readonly<Record<string, string>>;

export class Counter {
  readonly name: string;
  readonly #help: string;
  readonly #values = new Map<string, number>();

  constructor(name: string, help: string) {
    this.name = name;
    this.#help = help;
  }

  add(amount = 1, labels: Labels = {}): void {
    const key = labelText(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + amount);
  }

  /** The sum over all labels. */
  get total(): number {
    return [...this.#values.values()].reduce((sum, value) => sum + value, 0);
  }

  render(): string {
    const values = this.#values.size === 0 ? [["", 0] as const] : [...this.#values];
    return family(
      this.name,
      this.#help,
      "counter",
      values.map(([labels, value]) => `${this.name}${labels} ${value}`),
    );
  }
}

export class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.#name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count++;
    for (const [index, bound] of this.#bounds.entries()) if (value <= bound) this.#counts[index]!++;
  }

  render(): string {
    const buckets = this.#bounds.map((bound, index) => `${this.#name}_bucket{le="${bound}"} ${this.#counts[index]}`);
    return family(this.#name, this.#help, "histogram", [
      ...buckets,
      `${this.#name}_bucket{le="+Inf"} ${this.#count}`,
      `${this.#name}_sum ${this.#sum}`,
      `${this.#name}_count ${this.#count}`,
    ]);
  }
}

/** Renders one value that was read just now. */
export function renderGauge(name: string, help: string, value: number): string {
  return family(name, help, "gauge", [`${name} ${value}`]);
}

/** Renders one value that only grows and is counted elsewhere. */
export function renderCount(name: string, help: string, value: number): string {
  return family(name, help, "counter", [`${name} ${value}`]);
}

function family(name: string, help: string, type: string, samples: readonly string[]): string {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples, ""].join("\n");
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
