#!/bin/sh
# start.sh NGINX PORT ROOT BUILD -- nginx.conf, filled in, as a file without a name.
set -eu
conf=$(mktemp)
sed "s|@PORT@|$2|g; s|@ROOT@|$3|; s|@BUILD@|$4|" "$(dirname "$0")/nginx.conf" >"$conf"
[ "$(id -u)" = 0 ] || sed -i '/^user /d' "$conf"
exec 3<"$conf"
rm "$conf"
exec "$1" -e stderr -c /dev/fd/3
