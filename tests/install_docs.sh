#!/bin/sh
# Write the manual pages and the completion scripts, which the program itself prints, below SHARE.
lapwing=$1 share=$2
set -e
mkdir -p "$share/man/man1" "$share/bash-completion/completions"
"$lapwing" help --man >"$share/man/man1/lapwing.1"
for c in $("$lapwing" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do
    [ "$c" = help ] || "$lapwing" "$c" --help-man >"$share/man/man1/lapwing-$c.1"
done
"$lapwing" help --completion >"$share/bash-completion/completions/lapwing"
mkdir -p "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$lapwing" help --completion zsh >"$share/zsh/site-functions/_lapwing"
"$lapwing" help --completion fish >"$share/fish/vendor_completions.d/lapwing.fish"
