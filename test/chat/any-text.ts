/** Random texts for properties of tokenizers. */
import fc from "fast-check";

/** Any character, half of them from the first few hundred, where most rules of tokenizers are. */
export const anyText = fc.string({
  unit: fc
    .oneof(
      fc.nat(0x200),
      fc.nat(0x10ffff).filter((code) => code < 0xd800 || code > 0xdfff),
    )
    .map((code) => String.fromCodePoint(code)),
});
