#!/bin/sh
# Runs a program as a container would: in a root of its own, which is read-only, with volumes, a name,
# the limits of a control group, and without privileges. It stays one process.
#   container.sh IMAGE ROOT NAME UID GROUPS VOLUMES TASKS PROGRAM [ARGUMENT ...]
# VOLUMES: lines "ro|rw SOURCE TARGET". TASKS: lines with files that take the process into a group.
# It runs in a mount and UTS namespace of its own.
set -eu
image=$1 root=$2 name=$3 user=$4 groups=$5 volumes=$6 tasks=$7
shift 7

hostname "$name"
printf '%s\n' "$tasks" | while read -r file; do
  [ -z "$file" ] || echo $$ >"$file"
done
mount --bind "$image" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
printf '%s\n' "$volumes" | while read -r mode source target; do
  mount --bind "$source" "$root$target"
  [ "$mode" = rw ] || mount -o remount,bind,ro "$root$target"
done
exec setpriv --no-new-privs chroot --userspec="$user" --groups="$groups" "$root" "$@"
