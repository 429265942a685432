/** Python's `strftime` for the date formats that chat templates use, in UTC and English. */

/** Writes a time by a format such as "%d %b %Y". A directive that is not known stays as it is. */
export function strftime(time: Date, format: string): string {
  return format.replace(/%([a-zA-Z%])/g, (directive, letter: string) => DIRECTIVES[letter]?.(time) ?? directive);
}

const DIRECTIVES: Readonly<Record<string, (time: Date) => string>> = {
  "%": () => "%",
  Y: (time) => String(time.getUTCFullYear()),
  m: (time) => twoDigits(time.getUTCMonth() + 1),
  d: (time) => twoDigits(time.getUTCDate()),
  H: (time) => twoDigits(time.getUTCHours()),
  M: (time) => twoDigits(time.getUTCMinutes()),
  S: (time) => twoDigits(time.getUTCSeconds()),
  B: (time) => name(time, { month: "long" }),
  b: (time) => name(time, { month: "short" }),
  A: (time) => name(time, { weekday: "long" }),
  a: (time) => name(time, { weekday: "short" }),
};

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

function name(time: Date, style: Intl.DateTimeFormatOptions): string {
  return new Intl.DateTimeFormat("en-US", { ...style, timeZone: "UTC" }).format(time);
}
