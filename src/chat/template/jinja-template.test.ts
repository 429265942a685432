import { describe, expect, test } from "vitest";
import { JinjaTemplate, TemplateRefusal } from "./jinja-template.ts";

/** Templates and what Python's jinja2 3.1.6 renders, with trim_blocks, lstrip_blocks and loop controls. */
const cases = [
  {
    what: "output before a break is kept",
    source: "{% for i in range(4) %}[{{ i }}{% if i == 2 %}!{% break %}{% endif %}]{% endfor %}.",
    text: "[0][1][2!.",
  },
  {
    what: "output before a continue is kept",
    source: "{% for i in range(3) %}{{ i }}{% if i == 1 %}-{% continue %}{% endif %};{% endfor %}.",
    text: "0;1-2;.",
  },
  {
    what: "a break leaves the inner loop only",
    source:
      "{% for i in range(2) %}({% for j in range(3) %}{{ j }}{% if j == 1 %}{% break %}{% endif %},{% endfor %}){% endfor %}",
    text: "(0,1)(0,1)",
  },
  {
    what: "a break leaves the outer loop after an inner one",
    source: "{% for i in range(3) %}{% for j in range(2) %}{{ j }}{% endfor %}{% break %}x{% endfor %}|",
    text: "01|",
  },
  {
    what: "a continue in the last iteration ends with the loop",
    source: "{% for i in range(2) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}after",
    text: "0after",
  },
  {
    what: "a loop that runs again starts afresh",
    source:
      "{% macro f(n) %}{% for i in range(n) %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{% endmacro %}{{ f(3) }}{{ f(1) }}{{ f(3) }}",
    text: "01001",
  },
  {
    what: "a variable set before a break keeps its value",
    source:
      "{% set ns = namespace(last=0) %}{% for i in range(5) %}{% set ns.last = i %}{% if i == 3 %}{% break %}{% endif %}{% endfor %}{{ ns.last }}",
    text: "3",
  },
  { what: "range counts down", source: "{{ range(3, 0, -2) | join(',') }}", text: "3,1" },
  { what: "a generation block is plain text", source: "a{% generation %}b{% endgeneration %}c", text: "abc" },
];

describe("templates render as in Python", () => {
  test.each(cases)("$what", ({ source, text }) => {
    expect(new JinjaTemplate(source).render({})).toBe(text);
  });
});

test("the date is unknown unless it is given", () => {
  const template = new JinjaTemplate("{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no date' }}");
  expect(template.render({})).toBe("no date");
  expect(template.render({}, new Date("2024-07-06T23:59:00Z"))).toBe("06 Jul 2024");
});

test("raise_exception throws the template's message", () => {
  const template = new JinjaTemplate("{{ raise_exception('roles must alternate') }}");
  expect(() => template.render({})).toThrow(new TemplateRefusal("roles must alternate"));
});

test("undefined is empty text, objects are written as Python writes them, and raw text is not looked into", () => {
  const render = (source: string) => new JinjaTemplate(source).render({ call: { name: "f", n: 1.5, ok: true } });
  expect(render("{{ nothing | trim }}|{{ 'a' ~ nothing ~ 1 }}|{{ nothing | upper }}")).toBe("|a1|");
  expect(render("{{ call | string }}|{{ '' ~ call }}")).toBe(
    "{'name': 'f', 'n': 1.5, 'ok': True}|{'name': 'f', 'n': 1.5, 'ok': True}",
  );
  expect(render("{% for c in 'ab' %}{{ c }}-{% endfor %}{% for c in 'abc' if c != 'b' %}{{ c }}{% endfor %}")).toBe(
    "a-b-ac",
  );
  expect(render("{{ '%s and %s' | format(call.name, 2) }}")).toBe("f and 2");
  expect(render('{% raw %}{{ "a" }} {% if %}{% endraw %}!')).toBe('{{ "a" }} {% if %}!');
});
