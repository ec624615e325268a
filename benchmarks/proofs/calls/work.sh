# The same calls whenever it is run: $1 a directory of files, $2 how often.
i=0
while [ "$i" -lt "$2" ]; do
	cp -r "$1" copy && mv copy moved && chmod -R go-r moved && ls -lR moved >listing && cat moved/0/* >all
	cat moved/none 2>/dev/null
	rm -r moved listing all
	i=$((i + 1))
done
