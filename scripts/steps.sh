# For scripts that run one `imagesent` command after another, sourced by them after `cd` to the repository: a step that
# was done is not done again, and how long each took is noted in $runs/times.txt.
imagesent() { python -m keras_imagesent "$@"; }
[ ! -x .venv/bin/python ] || PATH=$PWD/.venv/bin:$PATH
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3}
mkdir -p "$runs"

step() { # NAME COMMAND...: runs it once to the end
  [ ! -e "$runs/.done-$1" ] || { echo "== $1: done"; return 0; }
  echo "== $1: imagesent ${*:2}"
  local started=$SECONDS
  imagesent "${@:2}"
  echo "$1 $((SECONDS - started)) s" >> "$runs/times.txt"
  touch "$runs/.done-$1"
}
