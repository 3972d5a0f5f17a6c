/* What every page of the report begins and ends with. Narrow screens scroll pictures, whose text
 * would be too small; paper shows the largest buckets alone. */
#include "analysis/draw/html_page.h"

const char html_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"generator\" content=\"lapwing " LW_VERSION "\">\n<title>";

const char html_style[] =
    "</title>\n<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:1160px;margin:2em auto;padding:0 1em;"
    "color:#1a1a1a;background:#fff;overflow-wrap:break-word}\n"
    "h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ccc}"
    "h3{font-size:1.05em;margin-top:1.5em}\n"
    "table{border-collapse:collapse;margin:.8em 0}th,td{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #e4e4e4;font-variant-numeric:tabular-nums}\n"
    "th{border-bottom:2px solid #888;vertical-align:bottom}"
    "td.t,th.t{text-align:left}code{font-size:.92em;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto}svg{width:100%;min-width:640px;height:auto}"
    "svg text{font:12px system-ui,sans-serif}"
    "svg .run{font-weight:600}svg .axis{stroke:#444}"
    "svg .end{stroke:#444;stroke-dasharray:4 3}\n"
    ".legend span{margin-right:1.1em;white-space:nowrap;font-size:.9em}"
    ".legend i{display:inline-block;width:1.4em;height:.8em;margin-right:.35em;"
    "border:1px solid #888}\n"
    "input{font:inherit;width:100%;max-width:30em;padding:.3em}\n"
    ".note{color:#555}footer{margin-top:3em;color:#666;font-size:.85em}\n"
    ".print{display:none}"
    "@media (max-width:600px){body{margin:1em auto;padding:0 .6em}th,td{padding:.2em .4em}"
    "svg{min-width:900px}}\n"
    "@media print{body{max-width:none;margin:0;font-size:11px}.wide{overflow:visible}"
    "svg{min-width:0}label,.more{display:none}.print{display:block}"
    "section,tr{break-inside:avoid}h2,h3{break-after:avoid}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n"
    "</style>\n</head>\n<body>\n";

/* What the search box and the printer need; the page is complete without it. */
const char html_script[] =
    "<script>\n"
    "const box = document.getElementById('search');\n"
    "box.addEventListener('input', () => {\n"
    "  const words = box.value.toLowerCase().split(' ');\n"
    "  for (const e of document.querySelectorAll('[data-run]')) {\n"
    "    const text = e.dataset.run.toLowerCase();\n"
    "    e.hidden = !words.every(w => text.includes(w));\n"
    "  }\n"
    "});\n"
    "addEventListener('beforeprint', () => {\n"
    "  for (const d of document.querySelectorAll('section > details')) d.open = true;\n"
    "});\n"
    "</script>\n";
