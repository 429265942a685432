"""Renders the conversations of conversations.json with every template of a folder, as transformers does.

  pip install transformers jinja2
  python scripts/chat-templates/render.py FOLDER > rendered.json
  node --import tsx scripts/chat-templates/compare.ts FOLDER rendered.json
"""

import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

here = pathlib.Path(__file__).parent
cases = json.loads((here / "conversations.json").read_text())
rendered = {}
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    texts = {}
    for name, case in cases.items():
        try:
            [texts[name]], _ = render_jinja_template(
                conversations=[json.loads(json.dumps(case["messages"]))],
                tools=case.get("tools"),
                chat_template=file.read_text(),
                add_generation_prompt=case.get("prompt", False),
                bos_token="<s>",
                eos_token="</s>",
            )
        except Exception as error:  # noqa: BLE001: a template may refuse a conversation in any way
            texts[name] = None
            print(f"{file.name} {name}: {type(error).__name__} {str(error)[:100]}", file=sys.stderr)
    rendered[file.name] = texts
print(json.dumps(rendered))
