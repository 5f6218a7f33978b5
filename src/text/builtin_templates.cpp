#include "text/builtin_templates.h"

namespace phidias {

// Every tag strips the white space around it, so that only what the expressions give is written.
const BuiltinTemplate kBuiltinTemplates[kBuiltinTemplateCount] = {
    // Phi-3-mini since its second revision.
    {"phi-3-mini", R"jinja(
{%- for message in messages if message.role in ['system', 'user', 'assistant'] -%}
    {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt else eos_token | default('<|endoftext|>') -}}
)jinja"},

    // The first revision of Phi-3-mini: no system turn, and the answer's tag follows every user
    // turn.
    {"phi-3-first", R"jinja(
{{- bos_token | default('<s>') -}}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {{- '<|user|>\n' + message.content + '<|end|>\n<|assistant|>\n' -}}
    {%- elif message.role == 'assistant' -%}
        {{- message.content + '<|end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
)jinja"},

    // As the first Phi-3-mini, without the token at the beginning, which the tokenizer adds.
    {"phi-3-medium", R"jinja(
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {{- '<|user|>\n' + message.content + '<|end|>\n<|assistant|>\n' -}}
    {%- elif message.role == 'assistant' -%}
        {{- message.content + '<|end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
)jinja"},

    // Any role has a tag.
    {"phi-3-small", R"jinja(
{{- bos_token | default('<|endoftext|>') -}}
{%- for message in messages -%}
    {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt else eos_token | default('<|endoftext|>') -}}
)jinja"},

    // An answer that stands at the end is not answered.
    {"phi-3-vision", R"jinja(
{%- for message in messages -%}
    {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt and messages[-1].role != 'assistant' -%}
    {{- '<|assistant|>\n' -}}
{%- endif -%}
)jinja"},

    // As Phi-3-mini, but an empty system turn is left out.
    {"phi-3.5-mini", R"jinja(
{%- for message in messages if message.role in ['system', 'user', 'assistant'] -%}
    {%- if message.role != 'system' or message.content -%}
        {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
{{- '<|assistant|>\n' if add_generation_prompt else eos_token | default('<|endoftext|>') -}}
)jinja"},

    {"phi-4", R"jinja(
{%- for message in messages if message.role in ['system', 'user', 'assistant'] -%}
    {{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' -}}
{%- endfor -%}
{{- '<|im_start|>assistant<|im_sep|>' if add_generation_prompt -}}
)jinja"},

    // The first revision of phi-4: the answer's tag follows every user turn.
    {"phi-4-first", R"jinja(
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {{- message.content + '<|im_end|>' -}}
    {%- elif message.role in ['system', 'user'] -%}
        {{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' -}}
        {{- '<|im_start|>assistant<|im_sep|>' if message.role == 'user' -}}
    {%- endif -%}
{%- endfor -%}
)jinja"},

    // Tools are text that stands on the system message.
    {"phi-4-mini", R"jinja(
{%- for message in messages -%}
    {{- '<|' + message.role + '|>' + message.content -}}
    {%- if message.role == 'system' and message.tools is defined and message.tools is not none -%}
        {{- '<|tool|>' + message.tools + '<|/tool|>' -}}
    {%- endif -%}
    {{- '<|end|>' -}}
{%- endfor -%}
{{- '<|assistant|>' if add_generation_prompt else eos_token | default('<|endoftext|>') -}}
)jinja"},

    // One system turn that is always there and takes in all system messages, then the others.
    {"phi-4-mini-reasoning", R"jinja(
{{- '<|system|>Your name is Phi, an AI math expert developed by Microsoft.' -}}
{%- for message in messages if message.role == 'system' -%}
    {{- ' ' ~ message.content -}}
    {%- if message.tools is defined and message.tools is not none -%}
        {{- '<|tool|>' + message.tools + '<|/tool|>' -}}
    {%- endif -%}
{%- endfor -%}
{{- '<|end|>' -}}
{%- for message in messages if message.role != 'system' -%}
    {{- '<|' + message.role + '|>' + message.content + '<|end|>' -}}
{%- endfor -%}
{{- '<|assistant|>' if add_generation_prompt else eos_token | default('<|endoftext|>') -}}
)jinja"},
};

}  // namespace phidias
