#!/bin/sh
# start.sh NGINX PORT ROOT BUILD -- nginx.conf, filled in, as a file without a name.
set -eu
conf=$(mktemp)
plain() { printf '%s\n' "$1" | sed 's/[&|\]/\\&/g'; }
root=$(plain "$3") build=$(plain "$4")
sed "s|@PORT@|$2|g; s|@ROOT@|$root|; s|@BUILD@|$build|" "$(dirname "$0")/nginx.conf" >"$conf"
[ "$(id -u)" = 0 ] || sed -i '/^user /d' "$conf"
exec 3<"$conf"
rm "$conf"
exec "$1" -e stderr -c /dev/fd/3
