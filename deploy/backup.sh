#!/bin/sh
# Back up what belongs together of a job that is stopped, in one file; or put it back.
#
#     backup.sh save BACKUP.tar FOLDER...      the checkpoint, the folder of [lookups], <sink>/_spark_metadata
#     backup.sh restore BACKUP.tar             to where they were; what stands there now must be moved away first
#
# docs/operations.md says why they go together.
set -eu

fail() {
    echo "backup.sh: $*" >&2
    exit 2
}

[ "$#" -ge 2 ] || fail "usage: backup.sh save BACKUP.tar FOLDER... | backup.sh restore BACKUP.tar"
action=$1 backup=$2
shift 2
case $action in
    save)
        [ "$#" -ge 1 ] || fail "name the folders to save: the checkpoint, the folder of [lookups]"
        [ ! -e "$backup" ] || fail "$backup exists; choose another name"
        for folder do
            case $folder in /*) ;; *) fail "$folder: write the whole path, from /" ;; esac
            [ -d "$folder" ] || fail "$folder is no folder"
        done
        # Under another name until it is whole, so that half a backup is never taken for one.
        trap 'rm -f "$backup.unfinished"' EXIT
        tar --create --file "$backup.unfinished" --absolute-names "$@"
        sync "$backup.unfinished"
        mv "$backup.unfinished" "$backup"
        ;;
    restore)
        [ -f "$backup" ] || fail "there is no file $backup"
        folders=$(tar --list --absolute-names --file "$backup" | awk '
            { sub("/$", "") }
            top == "" || index($0, top "/") != 1 { top = $0; print }')
        echo "$folders" | while IFS= read -r folder; do
            [ ! -e "$folder" ] || fail "$folder is there; move it away first"
        done
        tar --extract --file "$backup" --absolute-names --same-permissions
        echo "$folders"
        ;;
    *) fail "$action: write save or restore" ;;
esac
