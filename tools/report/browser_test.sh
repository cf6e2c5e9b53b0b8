#!/bin/bash
# Opens sample reports in headless Chromium, where it is installed: no error, all sections, and at the
# widths of a desktop and of a phone no sideways scrolling, no text below 12 pixels, no ticks that
# overlap. Reports have no script; copies of them get one that looks at the page.
set -euo pipefail
sample_report=$PWD/tools/report/testing/sample_report
browser=
for name in chromium chromium-browser google-chrome; do
  [[ -n $browser ]] || browser=$(command -v "$name" || true)
done
[[ -n $browser ]] || { echo "skipped: chromium is not installed"; exit 0; }
export HOME=$TEST_TMPDIR
"$sample_report" "$TEST_TMPDIR"

# open FILE: prints the page as the browser has it, and on stderr what the browser logs.
open() {
  "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$TEST_TMPDIR/profile" \
    --enable-logging=stderr --virtual-time-budget=2000 --window-size=1400,2000 --dump-dom "file://$1"
}

read -r -d '' probe <<'END' || true
<script>
document.querySelectorAll('details').forEach(each => each.open = true);
const wide = innerWidth, faults = [];
const add = (fault, element) => faults.push(fault + ': ' + element.textContent.slice(0, 40).replace(/\s+/g, ' '));
const width = document.documentElement.scrollWidth;
if (width > wide) faults.push('the page scrolls sideways: ' + width + ' of ' + wide);
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const element = node.parentElement;
  if (!node.data.trim() || element.closest('script, style, title')) continue;
  const matrix = element.ownerSVGElement ? element.getScreenCTM() : null;
  const size = parseFloat(getComputedStyle(element).fontSize) * (matrix ? matrix.a : 1);
  if (size < 11.99) add('text of ' + size + ' pixels', element);
  const box = element.getBoundingClientRect();
  if (box.width > 0 && !element.closest('.scroll, pre, .skip') && (box.right > wide + 1 || box.left < -1)) {
    add('text beyond the page', element);
  }
}
document.querySelectorAll('.ticks').forEach(row => {
  const boxes = [...row.querySelectorAll('text')].map(text => text.getBoundingClientRect())
    .filter(box => box.width > 0);
  for (let i = 1; i < boxes.length; ++i) {
    const a = boxes[i - 1], b = boxes[i];
    if (a.right > b.left && b.right > a.left && a.bottom > b.top + 1 && b.bottom > a.top + 1) {
      add('ticks overlap', row);
    }
  }
});
parent.postMessage([wide, faults.length, faults.slice(0, 5).join(' | ')], '*');
</script>
END

# A window has at least 500 pixels, so the page is opened in a frame of the width WIDTH.
read -r -d '' frame <<'END' || true
<!DOCTYPE html><body><script>
onmessage = event => ['width', 'faults', 'first'].forEach(
  (name, i) => document.body.setAttribute('data-' + name, event.data[i]));
</script><iframe src="probed.htm" width="WIDTH" height="2000" style="border: 0"></iframe></body>
END

failed=0
for report in "$TEST_TMPDIR"/*.html; do
  name=${report##*/}
  open "$report" >dom 2>log
  if grep CONSOLE log; then echo "$name: the browser reports an error" && failed=1; fi
  sections=$(grep -c '<section ' dom)
  ((sections == 9)) || { echo "$name: $sections sections instead of 9" && failed=1; }
  # The page's policy forbids scripts, so a copy has no policy.
  grep -v 'Content-Security-Policy' "$report" | sed '$d' | sed 's/<\/body>//' >"$TEST_TMPDIR/probed.htm"
  printf '%s\n</body>\n</html>\n' "$probe" >>"$TEST_TMPDIR/probed.htm"
  for width in 1280 390; do
    printf '%s\n' "${frame/WIDTH/$width}" >"$TEST_TMPDIR/frame.htm"
    open "$TEST_TMPDIR/frame.htm" 2>log | grep -o '<body [^>]*>' >body || true
    grep -q "data-width=\"$width\"" body || { echo "$name: not opened at $width: $(cat body)" && failed=1; }
    grep -q 'data-faults="0"' body || { echo "$name at $width: $(cat body)" && failed=1; }
  done
done
((failed)) || echo "looked at $(ls "$TEST_TMPDIR"/*.html | wc -l) reports with $browser"
exit $failed
