// Numbers as people read them.

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});

export const count = value => whole.format(value);

// Three digits are enough to compare. A number and its unit stay on one line.
function short(value, unit) {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value >= 1000 ? count(value) : Number(value.toFixed(digits))}\u00a0${unit}`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return short(value, units[unit]);
}

export function milliseconds(value) {
  return value < 1000 ? short(value, "ms") : short(value / 1000, "s");
}

export function rate(tokensPerSecond) {
  return short(tokensPerSecond, "tokens/s");
}

export function duration(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const hours = Math.floor(seconds / 3600);
  if (hours < 24) return `${hours} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const shortId = id => id.slice(0, 8);
