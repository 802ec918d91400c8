# rows.awk CSV..: each row of the tables as ",column=value,column=value," (without commas in values)
BEGIN { FS = "\""; OFS = "" }
{ for (i = 2; i <= NF; i += 2) gsub(/,/, "", $i); $1 = $1 }
FNR == 1 { split($0, column, ","); next }
{ n = split($0, value, ","); for (i = 1; i <= n; i++) printf ",%s=%s", column[i], value[i]; print "," }
