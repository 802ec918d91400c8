#!/bin/sh
# links.sh TREE: the links of its Markdown files that lead nowhere, one a line.
cd "${1:?usage: links.sh TREE}" || exit 1
anchors() { sed -n 's|^\(// \)\{0,1\}##* ||p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; } # of its headings, as GitHub makes them
find . -name '*.md' ! -path './build/*' ! -path './.git/*' | sort | while read -r file; do
    grep -o ']([^)]*)' "$file" | sed 's/^](//; s/)$//' | while read -r link; do
        case $link in *:*) continue ;; '#'*) target=$file ;; *) target=$(dirname "$file")/${link%%#*} ;; esac
        [ -e "$target" ] || echo "$file: $link"
        case $link in *'#'*) anchors "$target" | grep -qx -e "${link#*#}" || echo "$file: $link" ;; esac
    done
done
