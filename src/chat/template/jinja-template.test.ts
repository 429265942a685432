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

describe("as Python has it", () => {
  const render = (source: string, variables: Record<string, unknown>) => new JinjaTemplate(source).render(variables);

  test("what an iteration sets is gone in the next one", () => {
    const source =
      "{% set seen = false %}{% for x in xs %}{{ x }}{{ seen }}{% set seen = true %}{{ seen }} {% endfor %}";
    expect(render(source, { xs: [1, 2] })).toBe("1FalseTrue 2FalseTrue ");
  });

  test("lists and objects are written with single quotes and capital constants", () => {
    expect(render("{{ call }} {{ call.days }}", { call: { city: "Köln", days: [1, true, null] } })).toBe(
      "{'city': 'Köln', 'days': [1, True, None]} [1, True, None]",
    );
  });

  test("objects may have numbers as keys, which sort as numbers", () => {
    const source =
      "{% set steps = {0: 5, 1024: 6, 512: 7} %}{{ steps[512] }} {{ steps[3] is defined }}" +
      "{% for limit, step in steps | dictsort %} {{ limit <= 600 }}:{{ step }}{% endfor %}";
    expect(render(source, {})).toBe("7 False True:5 True:7 False:6");
  });

  test("a loop takes pairs apart", () => {
    const source = '{% for key, name in [("max", "Maximum"), ("min", "Minimum")] %}{{ key }}={{ name }};{% endfor %}';
    expect(render(source, {})).toBe("max=Maximum;min=Minimum;");
  });

  test("texts have format, and lists have min and max", () => {
    expect(render("{{ '<{}:{}>'.format('a', n) }} {{ '{1}{0}'.format(1, 2) }}", { n: 7 })).toBe("<a:7> 21");
    expect(render("{{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }}", {})).toBe("1 3");
  });

  test("nothing has no items, and no first one", () => {
    const source =
      '{{ tools | selectattr("type", "equalto", "x") | list | length }} {{ [] | first | default("none") }}';
    expect(render(source, { tools: null })).toBe("0 none");
  });

  test("objects can be gone through, and numbers cannot", () => {
    expect(render("{{ {'a': 1} is iterable }} {{ 'a' is iterable }} {{ 3 is iterable }}", {})).toBe("True True False");
  });

  test("a part of something undefined is an error that names the part", () => {
    expect(render("{{ message.missing is defined }}", { message: {} })).toBe("False");
    expect(() => render("{{ message.missing.name }}", { message: {} })).toThrow('"name" of something undefined');
  });

  test("what is added to a safe text is escaped, as it is in Python, and tojson alone is not", () => {
    const source = `{{ "'" | safe + name + "'" | safe + tool | tojson }} {{ tool | tojson }} {{ "'" | safe ~ name }}`;
    expect(render(source, { name: "<a>", tool: { b: "c & d" } })).toBe(
      `'&lt;a&gt;'{&#34;b&#34;: &#34;c &amp; d&#34;} {"b": "c & d"} '<a>`,
    );
  });
});
